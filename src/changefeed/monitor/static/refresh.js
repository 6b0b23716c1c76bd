// Loads the content of the page again every five seconds, without a jump: only where the page asks for it, and not while
// somebody works in it. Without this file the page shows the same, and is reloaded by hand.
"use strict";
(() => {
  const main = document.querySelector("main[data-refresh]");
  if (!main) return;
  const button = document.createElement("button");
  let paused = sessionStorage.getItem("paused") === "yes";
  const show = () => {
    button.textContent = paused ? "Refresh: off" : "Refresh: on";
    button.setAttribute("aria-pressed", String(!paused));
  };
  button.type = "button";
  button.addEventListener("click", () => {
    paused = !paused;
    sessionStorage.setItem("paused", paused ? "yes" : "no");
    show();
  });
  show();
  document.querySelector("header").append(button);
  const load = async () => {
    if (paused || document.hidden || main.contains(document.activeElement) || !getSelection().isCollapsed) return;
    try {
      const answer = await fetch(location.href, {headers: {Accept: "text/html"}});
      const next = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main[data-refresh]");
      if (!answer.ok || !next) return;
      for (const open of main.querySelectorAll("details[open][id]")) {
        const same = next.querySelector("#" + CSS.escape(open.id));
        if (same) same.open = true;
      }
      const across = [...main.querySelectorAll(".scroll")].map((one) => one.scrollLeft);
      main.replaceChildren(...next.childNodes);
      [...main.querySelectorAll(".scroll")].forEach((one, n) => { one.scrollLeft = across[n] || 0; });
    } catch {
      // The server does not answer: what is shown stays, with its time.
    }
  };
  setInterval(load, 5000);
})();
