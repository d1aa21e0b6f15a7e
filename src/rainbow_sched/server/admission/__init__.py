"""Admission of calls: message size, credential, access policy, rate limits and deadlines."""
