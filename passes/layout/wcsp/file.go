package wcsp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
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

// Read reads the output of [Problem.Write]. It fails if the problem is invalid, or if the file has unknown keys or
// another version.
func Read(r io.Reader) (*Problem, error) {
	p := new(Problem)
	if err := readJSON(r, p); err != nil {
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
