package wcsp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

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
