"""The daemon: relay, interception, state, configuration, effects and command line."""
