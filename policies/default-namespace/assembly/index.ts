// Refuses objects in namespaces that nobody should use, `default` unless the settings say otherwise:
// {"denied": ["default", "test"]}.

import { handleAbort, handleCall, register, Result } from "@wapc/as-guest";
import { Json } from "./json";

export function __guest_call(operationSize: usize, payloadSize: usize): bool {
  return handleCall(operationSize, payloadSize);
}

export function wapc_init(): void {
  register("validate", validate);
  register("validate_settings", validateSettings);
  register("protocol_version", protocolVersion);
}

function protocolVersion(_payload: ArrayBuffer): Result<ArrayBuffer> {
  return answer('"v1"');
}

function validateSettings(payload: ArrayBuffer): Result<ArrayBuffer> {
  const denied = deniedBy(new Json(String.UTF8.decode(payload)));
  if (denied == null) {
    return answer('{"valid":false,"message":"denied must be a list of namespaces"}');
  }
  return answer('{"valid":true}');
}

function validate(payload: ArrayBuffer): Result<ArrayBuffer> {
  const json = new Json(String.UTF8.decode(payload));
  const denied = deniedBy(json.get("settings"));
  const name = json.get("request").get("namespace").asString();
  if (denied != null && name != null && denied.includes(name)) {
    return answer('{"accepted":false,"message":' + Json.quote("namespace " + name + " is not to be used") + "}");
  }
  return answer('{"accepted":true}');
}

// The denied namespaces, or null when the settings make no sense.
function deniedBy(settings: Json): string[] | null {
  const list = settings.get("denied");
  if (!list.exists()) return ["default"];
  const items = list.asList();
  if (items == null) return null;
  const names: string[] = [];
  for (let i = 0; i < items.length; i++) {
    const name = items[i].asString();
    if (name == null) return null;
    names.push(name);
  }
  return names;
}

function answer(text: string): Result<ArrayBuffer> {
  return Result.ok(String.UTF8.encode(text));
}

export function abort(message: string | null, fileName: string | null, line: u32, column: u32): void {
  handleAbort(message, fileName, line, column);
  unreachable();
}
