// A view of JSON text that is read only where it is asked. The host has made sure that it is JSON.

export class Json {
  constructor(private text: string, private at: i32 = 0) {
    this.at = this.blanks(at);
  }

  // Whether there is anything.
  exists(): bool {
    return this.at < this.text.length;
  }

  // The value of a key of an object; one that does not exist if there is no such key.
  get(key: string): Json {
    const nothing = new Json(this.text, this.text.length);
    if (this.code(this.at) != 0x7b) return nothing;
    let at = this.blanks(this.at + 1);
    while (at < this.text.length && this.code(at) != 0x7d) {
      const end = this.skipString(at);
      const found = this.unquote(at, end) == key;
      at = this.blanks(this.blanks(end) + 1);
      if (found) return new Json(this.text, at);
      at = this.next(this.skip(at));
    }
    return nothing;
  }

  asString(): string | null {
    if (this.code(this.at) != 0x22) return null;
    return this.unquote(this.at, this.skipString(this.at));
  }

  asList(): Json[] | null {
    if (this.code(this.at) != 0x5b) return null;
    const items: Json[] = [];
    let at = this.blanks(this.at + 1);
    while (at < this.text.length && this.code(at) != 0x5d) {
      items.push(new Json(this.text, at));
      at = this.next(this.skip(at));
    }
    return items;
  }

  // A text as JSON.
  static quote(text: string): string {
    let quoted = '"';
    for (let i = 0; i < text.length; i++) {
      const code = text.charCodeAt(i);
      if (code == 0x22 || code == 0x5c) quoted += "\\" + text.charAt(i);
      else if (code < 0x20) quoted += "\\u00" + (code < 16 ? "0" : "") + code.toString(16);
      else quoted += text.charAt(i);
    }
    return quoted + '"';
  }

  private code(at: i32): i32 {
    return at < this.text.length ? this.text.charCodeAt(at) : 0;
  }

  private blanks(at: i32): i32 {
    while (at < this.text.length && this.code(at) <= 0x20) at++;
    return at;
  }

  // Past a comma, if there is one.
  private next(at: i32): i32 {
    at = this.blanks(at);
    return this.code(at) == 0x2c ? this.blanks(at + 1) : at;
  }

  private skipString(at: i32): i32 {
    at++;
    while (at < this.text.length && this.code(at) != 0x22) at += this.code(at) == 0x5c ? 2 : 1;
    return at + 1;
  }

  // Past a value, whatever it is.
  private skip(at: i32): i32 {
    let depth = 0;
    do {
      const code = this.code(at);
      if (code == 0x22) {
        at = this.skipString(at);
      } else {
        if (code == 0x7b || code == 0x5b) depth++;
        if (code == 0x7d || code == 0x5d) depth--;
        at++;
        if (depth == 0 && code != 0x7d && code != 0x5d) {
          while (at < this.text.length && ",]} \t\r\n".indexOf(this.text.charAt(at)) < 0) at++;
        }
      }
    } while (depth > 0 && at < this.text.length);
    return at;
  }

  private unquote(start: i32, end: i32): string {
    const raw = this.text.substring(start + 1, end - 1);
    if (raw.indexOf("\\") < 0) return raw;
    let plain = "";
    for (let i = 0; i < raw.length; i++) {
      if (raw.charCodeAt(i) != 0x5c) {
        plain += raw.charAt(i);
        continue;
      }
      i++;
      const letter = raw.charAt(i);
      if (letter == "u") {
        plain += String.fromCharCode(<i32>parseInt(raw.substring(i + 1, i + 5), 16));
        i += 4;
      } else if (letter == "n") plain += "\n";
      else if (letter == "t") plain += "\t";
      else if (letter == "r") plain += "\r";
      else if (letter == "b") plain += "\b";
      else if (letter == "f") plain += "\f";
      else plain += letter;
    }
    return plain;
  }
}
