// Bundles the page into src/twinproof/view/web, and the headset emulator for tests into web/emulator (not shipped).
import { build } from "esbuild";
import { copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";

const out = "../src/twinproof/view/web";
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
