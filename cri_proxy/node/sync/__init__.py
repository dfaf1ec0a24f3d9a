"""Hold the ledger against what the runtime has."""
