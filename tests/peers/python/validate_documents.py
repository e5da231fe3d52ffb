"""Validates documents, one JSON text a line on standard input, against a schema, with the PyPI package jsonschema.

Exits with 0 only when there were at least as many documents as asked for, all different, and each is valid.
"""

import argparse
import json
import sys

from jsonschema import Draft202012Validator


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("schema")
    parser.add_argument("--at-least", type=int, default=1)
    args = parser.parse_args()
    with open(args.schema, encoding="utf-8") as file:
        schema = json.load(file)
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    lines = [line for line in sys.stdin.read().split("\n") if line]
    invalid = 0
    for number, line in enumerate(lines, 1):
        for error in validator.iter_errors(json.loads(line)):
            invalid += 1
            print("document %d: %s: %s" % (number, error.json_path, error.message))
    print("%d documents, %d different, %d faults" % (len(lines), len(set(lines)), invalid))
    return 0 if invalid == 0 and args.at_least <= len(set(lines)) else 1


if __name__ == "__main__":
    sys.exit(main())
