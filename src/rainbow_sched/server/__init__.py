"""The network side: gRPC services, admission, and errors as statuses."""
