// Compiles the policy, writes its metadata into it, and says what its digest is.
//
//   npm install && npm run build

import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import asc from "assemblyscript/asc";

const MODULE = "default-namespace.wasm";

const { error, stderr } = await asc.main([
  "assembly/index.ts",
  "--outFile", MODULE,
  "--optimizeLevel", "3",
  "--shrinkLevel", "1",
  "--noAssert",
  "--runtime", "minimal",
  "--use", "abort=assembly/index/abort",
]);
if (error) {
  console.error(stderr.toString());
  process.exit(1);
}

const leb128 = (number) => {
  const bytes = [];
  for (; number >= 0x80; number >>>= 7) bytes.push((number & 0x7f) | 0x80);
  return Buffer.from([...bytes, number]);
};

const name = Buffer.from("io.kubewarden.metadata");
const metadata = Buffer.from(JSON.stringify(JSON.parse(readFileSync("metadata.json", "utf8"))));
const content = Buffer.concat([leb128(name.length), name, metadata]);
const annotated = Buffer.concat([readFileSync(MODULE), Buffer.from([0]), leb128(content.length), content]);
writeFileSync(MODULE, annotated);
const digest = createHash("sha256").update(annotated).digest("hex");
writeFileSync(`${MODULE}.sha256`, `${digest}  ${MODULE}\n`);
console.log(`${digest}  ${MODULE}, ${annotated.length} bytes`);
