package onnx

import (
	"testing"
)

// TestKindsInErrors checks that a value of another kind than the wanted tensor is named by its own kind.
func TestKindsInErrors(t *testing.T) {
	for kind, want := range map[valKind]string{
		sequenceKind:      "want a tensor, got a sequence",
		emptyOptionalKind: "want a tensor, got an optional without a value",
		unavailableKind:   "want a tensor, got an unavailable value",
	} {
		err := func() (err error) {
			defer recoverFailure(&err)
			new(node).value(&val{kind: kind})
			return nil
		}()
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
