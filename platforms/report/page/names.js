// Short names for kernels. C++ template names run to hundreds of characters, most of which all kernels of a program share.
// A kernel is called by its function's own name; where several kernels have that name, by what sets them apart in their
// template arguments besides: elementwise_kernel<MulFunctor>.
(() => {
  const openers = "<({[";
  const closers = ">)}]";
  const basicTypes = new Set(["float", "double", "int", "unsigned", "long", "short", "char", "bool", "signed", "half", "const", "decltype",
    "nullptr", "void", "true", "false", "ul", "u", "std", "array", "BFloat16", "Half", "int8_t", "int32_t", "int64_t", "bfloat16_t"]);

  // The function's name without return type, namespaces, arguments; and the text of its own template arguments.
  function split(full) {
    let text = full.replace(/\(anonymous namespace\)::/g, "").replace(/\s*\[clone [^\]]*\]/g, "").replace(/\.kd$/, "").trim();
    if (/^_Z/.test(text)) return { base: text, args: "" };
    let depth = 0;
    let start = 0;  // of the function's name
    let argsStart = -1;
    let argsEnd = -1;
    for (let i = 0; i < text.length; ++i) {
      const c = text[i];
      if (c === "(" && depth === 0) { text = text.slice(0, i); break; }
      if (openers.includes(c)) {
        if (depth++ === 0 && c === "<") { argsStart = i + 1; argsEnd = -1; }
      } else if (closers.includes(c) && depth > 0) {
        if (--depth === 0) argsEnd = i;
      } else if (depth === 0 && c === " ") {
        start = i + 1;
        argsStart = -1;
      } else if (depth === 0 && c === ":") {
        start = i + 1;
        argsStart = -1;
      }
    }
    const args = argsStart >= 0 ? text.slice(argsStart, argsEnd >= 0 ? argsEnd : text.length) : "";
    const base = text.slice(start, argsStart >= 0 ? argsStart - 1 : text.length) || text;
    return { base, args };
  }

  // The last component of every qualified identifier in template arguments, with its depth, the parameter lists of lambdas
  // left out.
  function identifiers(args) {
    const found = new Map();
    let depth = 0;
    let skipped = 0;
    for (const [token] of args.matchAll(/[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*|\d+|[<>(){}]/g)) {
      if (token === "(" || token === "{") ++skipped;
      else if (token === ")" || token === "}") skipped = Math.max(0, skipped - 1);
      else if (token === "<") ++depth;
      else if (token === ">") depth = Math.max(0, depth - 1);
      else if (!skipped) {
        const name = token.split("::").pop();
        if (name !== "operator" && !found.has(name)) found.set(name, depth);
      }
    }
    return found;
  }

  const rank = (name) => (/^\d/.test(name) ? 2 : basicTypes.has(name) ? 1 : 0);

  // full names -> Map of full name to short name; distinct names stay distinct.
  heddle.shortNames = function (fullNames) {
    const families = new Map();
    for (const full of new Set(fullNames)) {
      const { base, args } = split(full);
      const generic = /^kernel\d*$/i.test(base);
      const first = generic ? args.split(/[<>,(]/)[0].split("::").pop().trim() : "";
      const label = first ? `${base}<${first}>` : base;
      if (!families.has(label)) families.set(label, []);
      families.get(label).push({ full, ids: identifiers(args) });
    }
    const result = new Map();
    const used = new Set();
    const give = (full, label) => {
      let unique = label;
      for (let n = 2; used.has(unique); ++n) unique = `${label} (${n})`;
      used.add(unique);
      result.set(full, unique);
    };
    for (const [label, members] of families) {
      if (members.length === 1) { give(members[0].full, label); continue; }
      const frequency = new Map();
      for (const { ids } of members) for (const id of ids.keys()) frequency.set(id, (frequency.get(id) || 0) + 1);
      for (const { full, ids } of members) {
        // Rare identifiers say most; of equally rare ones the innermost is the operation, the outer ones wrap it.
        const telling = [...ids.keys()].filter((id) => frequency.get(id) < members.length).sort((a, b) =>
          rank(a) - rank(b) || frequency.get(a) - frequency.get(b) || ids.get(b) - ids.get(a));
        const chosen = [];
        let rivals = members.filter((member) => member.full !== full);
        for (const id of telling) {
          const left = rivals.filter((member) => member.ids.has(id));
          if (chosen.length > 0 && left.length === rivals.length) continue;
          chosen.push(id);
          rivals = left;
          if (rivals.length === 0 || chosen.length === 3) break;
        }
        give(full, chosen.length ? `${label}<${chosen.join(", ")}>`.replace(/>>$/, ">\u200a>") : label);
      }
    }
    return result;
  };
})();
