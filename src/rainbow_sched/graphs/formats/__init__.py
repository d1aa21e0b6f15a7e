"""File and storage formats of graphs: JGF, compact, Flux R, packed."""
