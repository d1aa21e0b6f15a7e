"""What agent and server say to each other: plain values, and the one codec between them and protobuf."""
