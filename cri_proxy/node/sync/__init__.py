"""Compare the ledger with what the runtime has, and adopt what it lacks."""
