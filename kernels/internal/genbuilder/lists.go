package main

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/graphrun/graphrun/graph"
)

// list returns the text of the list of functions by op, for tests. Generic functions occur once for values and once for
// plain numbers.
func list(ops []*graph.Op, taken map[string]bool) ([]byte, error) {
	fs, err := all(ops, taken)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	for _, f := range fs {
		var values, numbers []string
		for _, p := range f.params {
			value, number := "*graph.Value", ""
			switch p.typ {
			case "Operand", "Optional":
				number = "float64"
			case "Int", "IntOrInts":
				number = "int"
			case "Ints":
				number = "[]int"
			default:
				continue
			}
			if p.attr != "" && p.typ == "Operand" {
				value, number = "tensor.Scalar", "tensor.Scalar" // an integer must stay one
			}
			values, numbers = append(values, value), append(numbers, number)
		}
		fmt.Fprintf(&b, "\t{%q, %q, %s, %s},\n", f.op.Name, f.overload, instance(f.name, values), instance(f.name, numbers))
	}
	head := header + "package op\n\nimport (\n\t\"github.com/graphrun/graphrun/graph\"\n"
	if bytes.Contains(b.Bytes(), []byte("tensor.")) {
		head += "\t\"github.com/graphrun/graphrun/tensor\"\n"
	}
	return formatted([]byte(head + ")\n\nvar functions = []listed{\n" + b.String() + "}\n"))
}

func instance(name string, types []string) string {
	if types == nil {
		return name
	}
	return name + "[" + strings.Join(types, ", ") + "]"
}

// names returns the text of the list of all ops. It is assigned rather than declared, so that package graph
// compiles without it.
func names(ops []*graph.Op, _ map[string]bool) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(header + "package graph\n\nfunc init() {\n\topNames = []string{\n")
	for _, o := range ops {
		fmt.Fprintf(&b, "\t\t%q,\n", o.Name)
	}
	b.WriteString("\t}\n}\n")
	return formatted(b.Bytes())
}
