//! Everything that knows the server.
