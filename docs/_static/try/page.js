// The editor of "Try it": it runs the program when it has not changed for a moment, and shows what came out.
const here = new URL("./", import.meta.url);
const PAUSE = 600;
const LIMIT = 20000;

const element = (id) => document.getElementById(`try-${id}`);
const code = element("code"), status = element("status"), output = element("output");
const stop = element("stop"), run = element("run"), choice = element("choice");

let programs = {}, worker, number = 0, waiting, limit, isReady = false, submitted, halted;

function say(text, isError = false) {
  status.textContent = text;
  status.classList.toggle("try-error", isError);
}

function start() {
  isReady = false;
  worker?.terminate();
  worker = new Worker(new URL("worker.js", here), { type: "module" });
  worker.onmessage = ({ data }) => {
    if (data.broken) return say(`Python could not be loaded: ${data.broken}`, true);
    if (data.ready) {
      isReady = true;
      say(`Python is ready (${(data.milliseconds / 1000).toFixed(1)} s)`);
      // A program that was stopped would have to be stopped again.
      return code.value === halted ? undefined : submit();
    }
    if (data.number !== number) return;
    clearTimeout(limit);
    stop.disabled = true;
    if (data.failed) {
      show({ error: data.failed, runs: [] });
      return halt("Python failed");
    }
    show(data.answer);
    if (data.answer.error) say("The program failed", true);
    else say(`Ran in ${data.milliseconds.toFixed(0)} ms`);
  };
  worker.onerror = (event) => say(`Python could not be loaded: ${event.message ?? "the files of Pyodide are missing"}`, true);
}

function submit() {
  clearTimeout(waiting);
  if (!isReady) return;
  number += 1;
  stop.disabled = false;
  say("Running …");
  submitted = code.value;
  worker.postMessage({ number, code: submitted });
  clearTimeout(limit);
  limit = setTimeout(() => halt(`Stopped after ${LIMIT / 1000} s`), LIMIT);
}

function halt(text) {
  clearTimeout(limit);
  stop.disabled = true;
  number += 1;
  halted = submitted;
  start();
  say(`${text}; Python is loaded anew …`, true);
}

function make(tag, text, parent, name) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (name) made.className = name;
  parent.append(made);
  return made;
}

function show(answer) {
  output.replaceChildren();
  if (answer.error) make("pre", answer.error, output, "try-error");
  if (answer.printed) make("pre", answer.printed, output, "try-printed");
  for (const each of answer.runs) {
    if (answer.runs.length > 1) make("h3", each.name, output);
    for (const sink of each.collected) {
      make("h4", sink.name, output);
      const lines = sink.values.length ? sink.values.join("\n") : "(nothing)";
      make("pre", sink.more ? `${lines}\n… and ${sink.more} more` : lines, output, "try-values");
    }
    for (const picture of each.pictures) {
      const figure = make("figure", undefined, output);
      // The picture is windrow's own; texts of elements are escaped in it.
      figure.innerHTML = picture.svg;
      make("figcaption", picture.step, figure);
    }
    const counters = Object.entries(each.counters).map(([name, count]) => `${name} ${count}`);
    if (counters.length) make("p", counters.join(", "), output, "try-counters");
    const plan = make("details", undefined, output);
    make("summary", "The plan", plan);
    make("pre", each.plan, plan);
  }
}

choice.onchange = () => { code.value = programs[choice.value]; submit(); };
code.oninput = () => { clearTimeout(waiting); waiting = setTimeout(submit, PAUSE); };
code.onkeydown = (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); submit(); }
  // Escape, and then Tab, leaves the editor by the keyboard.
  if (event.key === "Tab" && !event.shiftKey && !code.dataset.leaves) {
    event.preventDefault();
    code.setRangeText("    ", code.selectionStart, code.selectionEnd, "end");
    code.dispatchEvent(new Event("input"));
  }
  if (event.key === "Escape") code.dataset.leaves = "1";
  else if (event.key !== "Tab") delete code.dataset.leaves;
};
run.onclick = submit;
stop.onclick = () => halt("Stopped");

// Says what to do so that the page can run programs; nothing is broken.
function advise(text, reason, commands) {
  say(text);
  run.disabled = true;
  output.replaceChildren();
  make("p", reason, output);
  make("pre", commands, output);
}

if (location.protocol === "file:") {
  advise("Not on a server", "Browsers run programs of a page from a server alone. In the folder of the pages:", "python -m http.server");
} else {
  const built = await (await fetch(new URL("programs.json", here))).json();
  programs = built.programs;
  for (const name of Object.keys(programs)) make("option", name, choice);
  code.value = programs[choice.value];
  if (built.isWithPython) { say("Loading Python …"); start(); }
  else {
    choice.onchange = () => { code.value = programs[choice.value]; };
    code.oninput = null;
    advise(
      "Python is not among these pages",
      "They were built without Pyodide, the Python that browsers run. npm fetches it (13 MB), and the next build shows it; in the clone:",
      "python -m docs.playground\nmake docs",
    );
  }
}
