"""Options, registration and installation of an agent, before it runs."""
