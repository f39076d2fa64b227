package wcsp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// MarshalJSON writes costs as a list of numbers; [Forbidden] is null.
func (c Costs) MarshalJSON() ([]byte, error) {
	text := append(make([]byte, 0, 2+4*len(c)), '[')
	for i, cost := range c {
		if i > 0 {
			text = append(text, ',')
		}
		if cost == Forbidden {
			text = append(text, "null"...)
		} else {
			text = strconv.AppendInt(text, cost, 10)
		}
	}
	return append(text, ']'), nil
}

// UnmarshalJSON reads the output of MarshalJSON.
func (c *Costs) UnmarshalJSON(text []byte) error {
	var list []*int64
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}
	*c = make(Costs, len(list))
	for i, cost := range list {
		if (*c)[i] = Forbidden; cost != nil {
			(*c)[i] = *cost
		}
	}
	return nil
}

// Write writes the problem as JSON. It fails if the problem is invalid.
func (p *Problem) Write(w io.Writer) error {
	if err := p.Validate(); err != nil {
		return err
	}
	withVersion := *p
	withVersion.Version = Version
	return writeJSON(w, &withVersion)
}

// Read reads the output of [Problem.Write], and the file of plan --problem without its prices. It fails if the problem is invalid, or if the file has unknown keys or
// another version.
func Read(r io.Reader) (*Problem, error) {
	p := new(Problem)
	file := struct {
		*Problem
		Prices json.RawMessage `json:"prices"` // what labels stand for, in the files of plan --problem
	}{Problem: p}
	if err := readJSON(r, &file); err != nil {
		return nil, err
	}
	if p.Version != Version {
		return nil, fmt.Errorf("wcsp: version %d is not supported; want %d", p.Version, Version)
	}
	return p, p.Validate()
}

// Write writes the solution as JSON, including its proof.
func (s *Solution) Write(w io.Writer) error {
	withVersion := *s
	withVersion.Version = Version
	return writeJSON(w, &withVersion)
}

// ReadSolution reads the output of [Solution.Write]. It fails if the file has unknown keys or another version. It does
// not check the solution: package verify does.
func ReadSolution(r io.Reader) (*Solution, error) {
	s := new(Solution)
	if err := readJSON(r, s); err != nil {
		return nil, err
	}
	if s.Version != Version {
		return nil, fmt.Errorf("wcsp: version %d is not supported; want %d", s.Version, Version)
	}
	return s, nil
}

// JSONSchema returns the JSON schema of a list of costs.
func (Costs) JSONSchema() map[string]any {
	return map[string]any{"type": "array", "items": map[string]any{"type": []string{"integer", "null"}}}
}

// writeJSON writes a document as one line of JSON.
func writeJSON(w io.Writer, document any) error {
	if w == nil {
		return errors.New("wcsp: the writer is nil")
	}
	text, err := json.Marshal(document)
	if err != nil {
		return fmt.Errorf("wcsp: %w", err)
	}
	if _, err := w.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("wcsp: %w", err)
	}
	return nil
}

// readJSON reads a JSON document without unknown keys.
func readJSON(r io.Reader, document any) error {
	if r == nil {
		return errors.New("wcsp: the reader is nil")
	}
	text, err := io.ReadAll(r)
	if err != nil {
		return fmt.Errorf("wcsp: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(document); err != nil {
		return fmt.Errorf("wcsp: byte %d: %w", decoder.InputOffset(), err)
	}
	if rest := bytes.TrimSpace(text[decoder.InputOffset():]); len(rest) > 0 {
		return fmt.Errorf("wcsp: byte %d: unexpected data after the document", decoder.InputOffset())
	}
	return nil
}

// maxToulbar2Cost is the largest upper bound that toulbar2 accepts by default.
const maxToulbar2Cost = 512409557603043100

// WriteCFN writes the problem in the cfn format of toulbar2, which is also valid JSON
// (https://toulbar2.github.io/toulbar2/formats/cfnformat.html). Variable i is named "x" followed by i and its name in
// the problem, for example x3_conv1. Labels are numbers. Costs are integers, in picoseconds. The upper bound
// ("mustbe") exceeds the sum of the largest allowed costs of all factors, so it excludes no optimum. Forbidden
// combinations cost the upper bound. WriteCFN fails if the problem is invalid, or if the upper bound exceeds toulbar2's
// range. A problem of two variables with two labels each is written as, for example:
//
//	{"problem":{"name":"p_tiny","mustbe":"<13"},
//	"variables":{
//	"x0_conv1":2,
//	"x1_conv2":2},
//	"functions":{
//	"f0":{"scope":["x0_conv1"],"costs":[3,5]},
//	"f1":{"scope":["x0_conv1","x1_conv2"],"costs":[0,7,13,0]}}}
func (p *Problem) WriteCFN(w io.Writer, name string) error {
	if w == nil {
		return errors.New("wcsp: the writer is nil")
	}
	if err := p.Validate(); err != nil {
		return err
	}
	upperBound := p.upperBound()
	if upperBound > maxToulbar2Cost {
		return fmt.Errorf("wcsp: the costs add up to %d, but toulbar2 supports at most %d", upperBound,
			int64(maxToulbar2Cost))
	}
	out := bufio.NewWriter(w) // errors of writes are not checked, because Flush returns the first of them
	fmt.Fprintf(out, "{\"problem\":{\"name\":\"p%s\",\"mustbe\":\"<%d\"},\n\"variables\":{", cfnName(name), upperBound)
	names := make([]string, len(p.Variables))
	for i, variable := range p.Variables {
		names[i] = fmt.Sprintf("\"x%d%s\"", i, cfnName(variable.Name))
		fmt.Fprintf(out, "%s%s:%d", cfnSeparator(i), names[i], len(variable.Labels))
	}
	out.WriteString("},\n\"functions\":{")
	for i, factor := range p.Factors {
		scope := make([]string, len(factor.Scope))
		for position, variable := range factor.Scope {
			scope[position] = names[variable]
		}
		fmt.Fprintf(out, "%s\"f%d\":{\"scope\":[%s],\"costs\":[", cfnSeparator(i), i, strings.Join(scope, ","))
		for position, cost := range factor.Costs {
			if position > 0 {
				out.WriteByte(',')
			}
			out.Write(strconv.AppendInt(out.AvailableBuffer(), min(cost, upperBound), 10))
		}
		out.WriteString("]}")
	}
	out.WriteString("}}\n")
	if err := out.Flush(); err != nil {
		return fmt.Errorf("wcsp: %w", err)
	}
	return nil
}

// upperBound returns 1 more than the sum of the largest allowed costs of all factors.
func (p *Problem) upperBound() int64 {
	bound := int64(1)
	for _, factor := range p.Factors {
		largest := int64(0)
		for _, cost := range factor.Costs {
			if cost < Forbidden {
				largest = max(largest, cost)
			}
		}
		bound = add(bound, largest)
	}
	return bound
}

// cfnSeparator returns the text before item i of an object.
func cfnSeparator(i int) string {
	if i == 0 {
		return "\n"
	}
	return ",\n"
}

// cfnName converts a name to a part of a string in cfn files, where blanks and brackets are not allowed. The result is
// an underscore and the name, with an underscore for each character except ASCII letters, digits and dots. The result
// is empty for an empty name.
func cfnName(name string) string {
	if name == "" {
		return ""
	}
	return "_" + strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' {
			return r
		}
		return '_'
	}, name)
}
