"""What the manager backends share: tags, files of jobs, exit results, polling and caches."""
