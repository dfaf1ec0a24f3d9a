from cri_proxy.signals import Signal


def test_every_receiver_is_called_in_the_order_of_connection() -> None:
    signal, heard = Signal[[str]](), list[str]()
    signal.connect(lambda text: heard.append(f"first {text}"))
    signal.connect(lambda text: heard.append(f"second {text}"))
    signal.send("event")
    assert heard == ["first event", "second event"]


def test_a_signal_without_receivers_is_lost() -> None:
    signal, heard = Signal[[str]](), list[str]()
    signal.send("early")
    signal.connect(heard.append)
    assert heard == []
