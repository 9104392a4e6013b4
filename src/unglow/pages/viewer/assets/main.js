import { App } from "./app.js";

const parent = document.getElementById("view");
const base = new URL(".", location.href);
const app = new App(parent, base);
window.unglow = app; // for people who want to look closer
app.start().then(() => document.documentElement.setAttribute("data-ready", String(Math.round(performance.now()))), (error) => {
  document.documentElement.setAttribute("data-failed", error.message);
  app.say(error.message);
});
