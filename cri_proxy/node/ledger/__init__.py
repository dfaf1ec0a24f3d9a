"""The ledger: grants, what the runtime has confirmed, and what may be sent."""
