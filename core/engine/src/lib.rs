//! The async engine of Messina, generic over a small Runtime trait; no executor inside.
