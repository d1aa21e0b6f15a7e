"""The gRPC services: convert requests, call the service, convert results."""
