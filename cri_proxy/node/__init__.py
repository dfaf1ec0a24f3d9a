"""The node as it is now: ledger, coordinator, effects and resynchronisation."""
