"""The edge inward: gRPC services, authentication, errors to statuses; thin."""
