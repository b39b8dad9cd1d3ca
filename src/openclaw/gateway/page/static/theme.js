/* Light, dark, or the system's theme. Runs before the page is drawn. */
"use strict";

(() => {
  const KEY = "openclaw.theme";
  const order = ["auto", "light", "dark"];

  function stored() {
    try {
      const value = localStorage.getItem(KEY);
      return order.includes(value) ? value : "auto";
    } catch {
      return "auto"; // storage may be disabled
    }
  }

  function apply(theme) {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
  }

  window.openclawTheme = {
    current: stored,
    next() {
      const theme = order[(order.indexOf(stored()) + 1) % order.length];
      try {
        localStorage.setItem(KEY, theme);
      } catch {
        // It lasts until the page is closed.
      }
      apply(theme);
      return theme;
    },
  };
  apply(stored());
})();
