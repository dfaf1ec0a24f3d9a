"""Format the daemon's answers (status, explanations, plans) as text for a terminal."""
