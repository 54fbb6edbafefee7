// What is chosen on a page: pictures that show the same thing follow each other.

// Return values that tell all who listen when one of them changes.
export function makeState(values) {
  const listeners = [];
  return {
    ...values,
    listen(listener) {
      listeners.push(listener);
    },
    set(change) {
      const names = Object.keys(change).filter((name) => this[name] !== change[name]);
      if (!names.length) return;
      Object.assign(this, change);
      for (const listener of listeners) listener(names);
    },
  };
}
