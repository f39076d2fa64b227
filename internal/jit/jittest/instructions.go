//go:build linux || darwin

package jittest

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/sorted"
)

// maxReductionSteps is the maximum number of iterations of the loop that computes a remainder of floats. The quotient
// of two float64 numbers has up to 2,098 bits, and an iteration removes at least 51 bits.
const maxReductionSteps = 42

// syntax describes the loops in the listings of an architecture. The element counter is a register: the number of
// elements of the row that are computed (CX on amd64), or that remain (X25 on arm64).
type syntax struct {
	constantsMarker string         // the text with which the constants begin
	jump            *regexp.Regexp // a jump and its label
	advances        [2]string      // the text before and after the number in the instruction that advances the counter
	counter         string         // a text that every line that changes the counter contains
}

var (
	// setAX matches the instruction that sets AX to a number of iterations.
	setAX = regexp.MustCompile(`^\tMOVL\t\$(\d+), AX$`)
	// skipsTail matches the jump over a [rowTail]: the bit of the counter, and the label after the tail.
	skipsTail   = regexp.MustCompile(`^\ttbz\tx25, #(\d+), (L\d+)$`)
	amd64Syntax = syntax{constantsMarker: "DATA ", jump: regexp.MustCompile(`^\tJ\w+\t(L\d+)$`),
		advances: [2]string{"\tADDQ\t$", ", CX"}, counter: "CX\n"}
	arm64Syntax = syntax{constantsMarker: "constants:", jump: regexp.MustCompile(`^\t(?:b|cb|tb).*\b(L\d+)$`),
		advances: [2]string{"\tsubs\tx25, x25, #", ""}, counter: "x25"}
)

// rowTail is arm64 code for the last elements of a row. It computes a number of elements that is a power of two, and is
// executed if the number of remaining elements has the bit of this power. begin is its first line.
type rowTail struct{ begin, instructions, elements int }

// elementLoop is a loop over the elements of a row: the numbers of instructions and of elements of an iteration.
type elementLoop struct{ instructions, elements int }

// InstructionCount has the numbers of instructions of the parts of a listed loop.
type InstructionCount struct {
	*syntax
	lines           []string
	labels          map[string]int      // by label: its line
	instructions    []int               // by line: executed instructions; 0 if moved to loops, tails or a later line
	loops           []elementLoop       // the loops with the most elements first
	tails           map[string]*rowTail // by the label that follows the tail
	rowInstructions int                 // instructions of a row outside the loops over elements and the tails
}

// CountInstructions counts the instructions of a listed loop. It analyzes the text. On amd64, for example:
//
//	L0:                 // rows
//		XORL CX, CX
//	L1:                 // elements
//		...
//		ADDQ $16, CX    // an iteration computes 16 elements
//		...
//		JLE L1
//		...
//		JMP L0
//
// On amd64, a loop over elements adds their number to CX in each iteration. On arm64, it ends in the subtraction of
// their number from X25. The loop around these loops is the loop over rows. A loop inside a loop over elements either
// copies elements, whose number is in AX, or reduces remainders.
func CountInstructions(cpu machine.Features, listing string) (*InstructionCount, error) {
	style := &amd64Syntax
	if cpu.Has(machine.NEON) {
		style = &arm64Syntax
	}
	code, _, _ := strings.Cut(listing, style.constantsMarker)
	counts := &InstructionCount{syntax: style, lines: strings.Split(strings.TrimSuffix(code, "\n"), "\n"),
		labels: map[string]int{}, tails: map[string]*rowTail{}}
	counts.instructions = make([]int, len(counts.lines))
	for index := range counts.lines {
		counts.countLine(index)
	}
	if len(counts.loops) == 0 {
		return nil, fmt.Errorf("the listing has no loop over elements:\n%s", code)
	}
	counts.rowInstructions = counts.takeInstructions(0, len(counts.lines))
	sorted.Func(counts.loops, func(a, b elementLoop) int { return b.elements - a.elements })
	return counts, nil
}

// countLine adds the line with an index, and records its label. If a loop over elements ends in this line, countLine
// moves the instructions of the loop to c.loops. If a loop inside a loop over elements ends in this line, countLine
// moves the instructions of all its iterations to this line. For example, an inner loop of 5 lines and 16 iterations
// leaves 80 instructions in its last line and 0 in the other lines.
func (c *InstructionCount) countLine(index int) {
	line := c.lines[index]
	if label, ok := strings.CutSuffix(line, ":"); ok {
		c.labels[label] = index
		if tail, ok := c.tails[label]; ok {
			tail.instructions = c.takeInstructions(tail.begin, index)
		}
		return
	}
	c.instructions[index] = 1
	if !strings.Contains(line, "\tL") && !strings.Contains(line, " L") { // no label
		return
	}
	if match := skipsTail.FindStringSubmatch(line); match != nil {
		bit, _ := strconv.Atoi(match[1])
		c.tails[match[2]] = &rowTail{begin: index + 1, elements: 1 << bit}
	}
	match := c.jump.FindStringSubmatch(line)
	if match == nil {
		return
	}
	if begin, isBackward := c.labels[match[1]]; isBackward {
		c.endLoop(begin, index)
	}
}

// endLoop processes the loop of the lines from begin to end, which is a jump to begin, as described at countLine.
func (c *InstructionCount) endLoop(begin, end int) {
	// A loop that is not over elements is either inside a loop over elements or the loop over rows. The loop over rows
	// ends after the first loop over elements, and changes the counter.
	changesCounter := strings.Contains(strings.Join(c.lines[begin:end], "\n"), c.counter)
	isOverRows := len(c.loops) > 0 && changesCounter
	switch elements := c.elementsPerIteration(begin, end); {
	case elements > 0:
		c.loops = append(c.loops, elementLoop{c.takeInstructions(begin, end+1), elements})
	case !isOverRows: // inside a loop over elements
		c.instructions[end] = c.takeInstructions(begin, end+1) * innerIterations(c.lines[:begin], c.lines[end-1])
	}
}

// elementsPerIteration returns the number of elements of an iteration of the loop from begin to end, or 0 if this is
// not a loop over elements.
func (c *InstructionCount) elementsPerIteration(begin, end int) (count int) {
	for index := begin; index <= end; index++ {
		elements, ok := c.elementsAdvanced(c.lines[index])
		isInInnerLoop := c.instructions[index] == 0
		mayAdvance := c.syntax == &amd64Syntax || index == end-1 // on arm64, only the line before the jump
		if ok && !isInInnerLoop && mayAdvance {
			count = elements
		}
	}
	return count
}

// elementsAdvanced returns the number of elements of an iteration, if the line advances a loop over elements.
func (s *syntax) elementsAdvanced(line string) (elements int, ok bool) {
	line, hasPrefix := strings.CutPrefix(line, s.advances[0])
	line, hasSuffix := strings.CutSuffix(line, s.advances[1])
	if !hasPrefix || !hasSuffix {
		return 0, false
	}
	elements, err := strconv.Atoi(line)
	return elements, err == nil
}

// takeInstructions returns the number of instructions of the lines from begin to end-1, and sets their numbers to 0.
func (c *InstructionCount) takeInstructions(begin, end int) (sum int) {
	for _, executed := range c.instructions[begin:end] {
		sum += executed
	}
	clear(c.instructions[begin:end])
	return sum
}

// innerIterations returns the maximum number of iterations of a loop inside a loop over elements. before has the lines
// before the loop, and last is the line before its jump. If the loop decrements AX, the number is the initial value of
// AX, or twice this value if elements are copied in halves. Otherwise the loop reduces remainders.
func innerIterations(before []string, last string) int {
	if last != "\tDECL\tAX" {
		return maxReductionSteps
	}
	initial, factor := 0, 1
	for index := len(before) - 1; initial == 0; index-- {
		if match := setAX.FindStringSubmatch(before[index]); match != nil {
			initial, _ = strconv.Atoi(match[1])
		} else if before[index] == "\tADDQ\tAX, AX" {
			factor = 2
		}
	}
	return initial * factor
}

// Max returns the maximum number of instructions that a call executes for a number of rows of n elements.
func (c *InstructionCount) Max(n, rows int) int {
	sum := c.rowInstructions
	for k, loop := range c.loops {
		times := n / loop.elements
		n -= times * loop.elements
		isLast := k == len(c.loops)-1
		if isLast && n > 0 && c.syntax == &amd64Syntax {
			times++ // a masked iteration for the elements that remain
		}
		sum += times * loop.instructions
	}
	for _, tail := range c.tails { // arm64; n is the number of elements that remain
		if n&tail.elements != 0 {
			sum += tail.instructions
		}
	}
	return sum * rows
}
