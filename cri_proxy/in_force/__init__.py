"""Keep files in force: read and judge what they are now, keep what was good, watch them, report, save for a restart."""
