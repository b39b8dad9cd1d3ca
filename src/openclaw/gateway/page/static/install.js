/* Installing the page on a phone or a desktop, with a shell that opens without the gateway. */

/** Register the service worker, where the browser has one and the page may use it. */
export function installApp() {
  if (!("serviceWorker" in navigator)) return;
  const address = "sw.js";
  const policy = window.trustedTypes?.createPolicy("openclaw-shell", { createScriptURL: () => address });
  navigator.serviceWorker.register(policy ? policy.createScriptURL(address) : address).catch(() => {}); // only on HTTPS or loopback
}
