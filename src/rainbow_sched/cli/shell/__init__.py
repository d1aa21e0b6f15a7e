"""The terminal session around a command: connection, exit codes, interrupts, streamed output."""
