"""I/O around the reactor: event loop, connection to the server, journal and backend calls."""
