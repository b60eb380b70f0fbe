// Command template-oracle answers what Go's text/template, sprig and the YAML libraries make of a list of
// cases. It reads a JSON array of cases from stdin and writes one JSON line for each.
//
// With -bench N it executes each template N times instead and writes the nanoseconds that one took,
// reading and executing together.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"text/template"
	"time"

	"github.com/Masterminds/sprig/v3"
	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"
)

// A testCase is a template with its data, or a value to write as YAML.
type testCase struct {
	Kind     string          `json:"kind"`
	Template string          `json:"template"`
	Left     string          `json:"left"`
	Right    string          `json:"right"`
	Data     json.RawMessage `json:"data"`
}

// An answer is the text of a case, or the error that ended it.
type answer struct {
	Output      string `json:"output"`
	Error       string `json:"error,omitempty"`
	Nanoseconds int64  `json:"nanoseconds,omitempty"`
}

func main() {
	rounds := flag.Int("bench", 0, "execute each template so many times and report the time of one")
	flag.Parse()
	var cases []testCase
	if err := json.NewDecoder(bufio.NewReader(os.Stdin)).Decode(&cases); err != nil {
		fmt.Fprintln(os.Stderr, "reading the cases:", err)
		os.Exit(1)
	}
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	lines := json.NewEncoder(out)
	for _, c := range cases {
		result := answer{}
		if *rounds > 0 {
			result.Nanoseconds = measure(c, *rounds)
		} else if text, err := run(c); err != nil {
			result.Error = err.Error()
		} else {
			result.Output = text
		}
		if err := lines.Encode(result); err != nil {
			fmt.Fprintln(os.Stderr, "writing an answer:", err)
			os.Exit(1)
		}
	}
}

func run(c testCase) (text string, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	data, err := decode(c.Data)
	if err != nil {
		return "", err
	}
	switch c.Kind {
	case "yaml":
		written, err := yaml.Marshal(data)
		return string(written), err
	case "yaml3":
		var written bytes.Buffer
		encoder := yamlv3.NewEncoder(&written)
		encoder.SetIndent(2)
		err := encoder.Encode(data)
		return written.String(), err
	default:
		return execute(c, data)
	}
}

func execute(c testCase, data any) (string, error) {
	parsed, err := template.New("tmpl").Delims(c.Left, c.Right).Funcs(functions).Parse(c.Template)
	if err != nil {
		return "", err
	}
	var written bytes.Buffer
	err = parsed.Execute(&written, data)
	return written.String(), err
}

func measure(c testCase, rounds int) int64 {
	data, err := decode(c.Data)
	if err != nil {
		return 0
	}
	start := time.Now()
	for range rounds {
		if _, err := execute(c, data); err != nil {
			return 0
		}
	}
	return time.Since(start).Nanoseconds() / int64(rounds)
}

var functions = func() template.FuncMap {
	all := sprig.TxtFuncMap()
	all["fromYaml"] = func(text string) (any, error) {
		var value any
		err := yamlv3.Unmarshal([]byte(text), &value)
		return value, err
	}
	return all
}()

// decode reads JSON as Kubernetes does: whole numbers are int64, others float64.
func decode(raw json.RawMessage) (any, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	return numbers(value), nil
}

func numbers(value any) any {
	switch value := value.(type) {
	case json.Number:
		if whole, err := value.Int64(); err == nil {
			return whole
		}
		float, _ := value.Float64()
		return float
	case []any:
		for i := range value {
			value[i] = numbers(value[i])
		}
	case map[string]any:
		for key := range value {
			value[key] = numbers(value[key])
		}
	}
	return value
}
