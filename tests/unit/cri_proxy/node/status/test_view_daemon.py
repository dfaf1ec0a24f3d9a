from cri_proxy.config.model import Config
from cri_proxy.node.status.view import ConfigInForce, DaemonStatus


def test_a_reload_replaces_the_warnings_and_names_the_new_ones() -> None:
    in_force, reloaded = ConfigInForce(Config(), ("old", "stays")), Config(policy="none")
    assert in_force.use(reloaded, ("stays", "new")) == ("new",)
    assert (in_force.config, in_force.warnings) == (reloaded, ("stays", "new"))


def test_a_node_alone_is_well_and_has_nothing_to_add() -> None:
    alone = DaemonStatus()
    assert alone.reaches_runtime()
    assert (*alone.parts(), *alone.samples(), *alone.warnings()) == ()
    assert alone.configuration() is None
