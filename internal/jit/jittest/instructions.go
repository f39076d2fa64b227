//go:build linux || darwin

package jittest

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// reduceRounds is the maximum number of reduction steps of a remainder. A quotient of float64 has up to 2,098 bits, and
// a step removes at least 51 bits.
const reduceRounds = 42

var (
	labelled = regexp.MustCompile(`^(L\d+):$`)
	jump     = regexp.MustCompile(`^\tJ\w+\t(L\d+)$`)
	counted  = regexp.MustCompile(`^\tMOVL\t\$(\d+), AX$`)
	advances = regexp.MustCompile(`^\tADDQ\t\$(\d+), CX$`)
)

// elementLoop is a loop over the elements of a row: the numbers of instructions and of elements of an iteration.
type elementLoop struct{ cost, elements int }

// MaxInstructions returns the maximum number of instructions that a call of the listed loop executes for rows of n0
// elements. It analyzes the text. A loop over elements adds their number to CX in each iteration. The loop around these
// loops is the loop over rows. A loop inside them copies elements, whose number is in AX, or reduces remainders.
func MaxInstructions(listing string, n0, rows int) (int, error) {
	code, _, _ := strings.Cut(listing, "DATA ")
	lines := strings.Split(strings.TrimSuffix(code, "\n"), "\n")
	labels := map[string]int{}
	once := 0 // instructions outside the loops over elements
	var loops []elementLoop
	cost := make([]int, len(lines)) // by line: instructions that it executes in an iteration of the surrounding loop
	for k, line := range lines {
		if m := labelled.FindStringSubmatch(line); m != nil {
			labels[m[1]] = k
			continue
		}
		cost[k] = 1
		m := jump.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		begin, back := labels[m[1]]
		if !back {
			continue
		}
		body, step := 0, 0
		for at := begin; at <= k; at++ {
			body += cost[at]
			if a := advances.FindStringSubmatch(lines[at]); a != nil && cost[at] > 0 {
				step, _ = strconv.Atoi(a[1])
			}
		}
		switch {
		case step > 0:
			loops = append(loops, elementLoop{body, step})
			clear(cost[begin : k+1])
		case len(loops) == 0 || !strings.Contains(strings.Join(lines[begin:k], "\n"), "CX\n"):
			clear(cost[begin : k+1])
			cost[k] = body * rounds(lines[:begin], lines[k-1])
		}
	}
	if len(loops) == 0 {
		return 0, fmt.Errorf("no loop over elements in\n%s", code)
	}
	for _, c := range cost {
		once += c
	}
	slices.SortFunc(loops, func(a, b elementLoop) int { return b.elements - a.elements })
	row, left := once, n0
	for k, t := range loops {
		n := left / t.elements
		if left -= n * t.elements; k == len(loops)-1 && left > 0 {
			n++
		}
		row += n * t.cost
	}
	return row * rows, nil
}

// rounds returns the maximum number of iterations of a loop inside a loop over elements: the initial value of AX, twice
// this value if elements are copied in halves, or reduceRounds.
func rounds(before []string, last string) int {
	if last != "\tDECL\tAX" {
		return reduceRounds
	}
	n, times := 0, 1
	for k := len(before) - 1; n == 0; k-- {
		if m := counted.FindStringSubmatch(before[k]); m != nil {
			n, _ = strconv.Atoi(m[1])
		} else if before[k] == "\tADDQ\tAX, AX" {
			times = 2
		}
	}
	return n * times
}
