"""Parts shared by the backends: tags, job files, results, polling and caches."""
