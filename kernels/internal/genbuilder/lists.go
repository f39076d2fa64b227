package main

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/graphrun/graphrun/graph"
)

// testListFile returns the text of the test file that lists the generated functions by op. A generic function is listed
// with two instances: the instance for values of the graph and the instance for plain numbers. declared has the names
// that hand-written files of package op declare.
func testListFile(ops []*graph.Op, declared map[string]bool) ([]byte, error) {
	functions, err := describeAll(ops, declared)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for _, f := range functions {
		var values, numbers []string
		for _, parameter := range f.params {
			value, number := "*graph.Value", ""
			switch parameter.typ {
			case "Operand", "Optional":
				number = "float64"
			case "Int", "IntOrInts":
				number = "int"
			case "Ints":
				number = "[]int"
			default:
				continue
			}
			if parameter.attr != "" && parameter.typ == "Operand" {
				value, number = "tensor.Scalar", "tensor.Scalar" // float64 would convert integers
			}
			values, numbers = append(values, value), append(numbers, number)
		}
		fmt.Fprintf(&out, "\t{%q, %q, %s, %s},\n", f.op.Name, f.overload, instance(f.name, values), instance(f.name, numbers))
	}
	head := header + "package op\n\nimport (\n\t\"github.com/graphrun/graphrun/graph\"\n"
	if bytes.Contains(out.Bytes(), []byte("tensor.")) {
		head += "\t\"github.com/graphrun/graphrun/tensor\"\n"
	}
	return formatted([]byte(head + ")\n\nvar functions = []listed{\n" + out.String() + "}\n"))
}

// instance returns the name of a function with its type arguments.
func instance(name string, types []string) string {
	if types == nil {
		return name
	}
	return name + "[" + strings.Join(types, ", ") + "]"
}

// opNamesFile returns the text of the file that lists the names of all ops. The file assigns the list in an init
// function, so that package suggest compiles without the file.
func opNamesFile(ops []*graph.Op, _ map[string]bool) ([]byte, error) {
	var out bytes.Buffer
	out.WriteString(header + "package suggest\n\nfunc init() {\n\topNames = []string{\n")
	for _, op := range ops {
		fmt.Fprintf(&out, "\t\t%q,\n", op.Name)
	}
	out.WriteString("\t}\n}\n")
	return formatted(out.Bytes())
}
