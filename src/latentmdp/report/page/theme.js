// The button for colours: as the system has them, light, dark.

const theme = document.getElementById("theme");
const THEMES = ["auto", "light", "dark"];
function setTheme(name) {
  if (name === "auto") document.documentElement.removeAttribute("data-theme");
  else document.documentElement.setAttribute("data-theme", name);
  theme.lastElementChild.textContent = name;
  theme.setAttribute("aria-label", `Colours: ${name}`);
  theme.dataset.now = name;
}
setTheme("auto");
theme.addEventListener("click", () => setTheme(THEMES[(THEMES.indexOf(theme.dataset.now) + 1) % 3]));
