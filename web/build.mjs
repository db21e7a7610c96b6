// Bundles the page into src/twinproof/view/web, or into the folder that is named. built.json says from which sources.
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { copyFileSync, existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";

const out = process.argv[2] ?? "../src/twinproof/view/web";
mkdirSync(out, { recursive: true });
await build({
  entryPoints: ["src/main.js"],
  bundle: true,
  minify: true,
  format: "iife", // a classic script also runs from file://
  target: "es2022",
  legalComments: "none",
  outfile: `${out}/app.js`,
});
copyFileSync("src/index.html", `${out}/index.html`);

const used = ["three", "@sparkjsdev/spark", "fflate"];
const notices = used.map((name) => {
  const folder = `node_modules/${name}`;
  const about = JSON.parse(readFileSync(`${folder}/package.json`, "utf8"));
  const licence = ["LICENSE", "LICENSE.md", "license"].map((file) => `${folder}/${file}`).find((file) => existsSync(file));
  return `${name} ${about.version} (${about.license})\n\n${licence ? readFileSync(licence, "utf8") : ""}`;
});
writeFileSync(`${out}/LICENSES.txt`, notices.join("\n----\n\n"));

// A test compares this with the sources, so that nobody changes one without the other (tests/view/test_built.py).
const sources = [...readdirSync("src").map((name) => `src/${name}`), "build.mjs", "package-lock.json"].sort();
const hash = createHash("sha256");
for (const name of sources) hash.update(`${name}\0`).update(readFileSync(name)).update("\0");
const made = createHash("sha256").update(readFileSync(`${out}/app.js`)).digest("hex");
writeFileSync(`${out}/built.json`, `${JSON.stringify({ sources: hash.digest("hex"), "app.js": made }, null, 1)}\n`);
