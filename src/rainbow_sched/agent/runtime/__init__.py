"""I/O around the reactor: the loop, the link to the server, the journal and the backend calls."""
