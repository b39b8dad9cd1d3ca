/* The page's own files, for when the gateway can't be reached. What the gateway says is never stored. */

const STORE = "openclaw-shell";
const OWN = /^\/(?:[\w-]+\.(?:js|css|svg|png|webmanifest))?$/;

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

self.addEventListener("fetch", (event) => {
  const { pathname, origin } = new URL(event.request.url);
  if (event.request.method === "GET" && origin === location.origin && OWN.test(pathname)) event.respondWith(answer(event.request));
});

/** The gateway's file, which is stored; if it can't be reached, the stored one. */
async function answer(request) {
  const store = await caches.open(STORE);
  try {
    const fresh = await fetch(request);
    if (fresh.ok) await store.put(request, fresh.clone());
    return fresh;
  } catch (error) {
    const stored = await store.match(request, { ignoreSearch: true });
    if (stored) return stored;
    throw error;
  }
}
