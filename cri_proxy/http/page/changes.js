// The server's events: the whole status, then its changes. Asks again where the stream ends.

const AGAIN_MS = 5000;

export function follow({ onStatus, onChange, onState }) {
  let source = null;
  const open = () => {
    source = new EventSource("/api/v1/events");
    source.addEventListener("open", () => onState("live", ""));
    source.addEventListener("status", (event) => onStatus(JSON.parse(event.data)));
    source.addEventListener("change", (event) => onChange(JSON.parse(event.data)));
    source.addEventListener("error", () => {
      onState("away", "the daemon does not answer; asked again");
      // A refusal (too many pages are open) closes it for good; a lost connection the browser opens again.
      if (source.readyState === EventSource.CLOSED) setTimeout(open, AGAIN_MS);
    });
  };
  open();
  addEventListener("pagehide", () => source.close());
}
