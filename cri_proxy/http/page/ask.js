// Questions to the daemon. Where it wants a token (httpTLS), it is asked for once, and kept for this tab alone.

const KEY = "cri-proxy token";
let signing = null; // while the form is open

// What fetch answers. Waits for a token where one is wanted; refused (401) only where the form was closed without one.
export async function ask(path, options = {}) {
  for (;;) {
    const token = sessionStorage.getItem(KEY);
    const headers = { ...options.headers, ...(token && { Authorization: `Bearer ${token}` }) };
    const answer = await fetch(path, { ...options, headers });
    if (answer.status !== 401) return answer;
    if (sessionStorage.getItem(KEY) !== token) continue; // typed meanwhile, for another question
    signing ??= signIn(token !== null).finally(() => (signing = null));
    if (!(await signing)) return answer;
  }
}

// The events of a stream as they come: pairs of a name and a text. `onData` is called whenever anything came.
export async function* events(answer, onData) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    onData();
    const whole = (rest + part.value).split("\n\n");
    rest = whole.pop();
    for (const [, name, text] of whole.map((event) => /^event: (.*)\ndata: (.*)$/.exec(event)).filter(Boolean)) yield [name, text];
  }
}

// Ask for a token; whether one was given.
function signIn(isWrong) {
  const dialog = document.getElementById("sign-in");
  const input = document.getElementById("token");
  document.getElementById("wrong").textContent = isWrong ? "The daemon does not know this token." : "";
  input.value = "";
  dialog.showModal();
  return new Promise((resolve) => {
    let isGiven = false;
    dialog.querySelector("form").onsubmit = (event) => {
      event.preventDefault();
      sessionStorage.setItem(KEY, input.value.trim());
      isGiven = true;
      dialog.close();
    };
    dialog.addEventListener("close", () => resolve(isGiven), { once: true });
  });
}
