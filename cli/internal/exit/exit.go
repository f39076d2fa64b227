// Package exit has the exit codes of the command line, errors that carry an exit code, and contexts that end with a
// signal.
package exit

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/graphrun/graphrun/internal/files"
	"github.com/graphrun/graphrun/tensor"
)

// Exit codes of the program.
const (
	CodeDone   = 0 // success
	CodeFailed = 1 // the command failed
	CodeUsage  = 2 // invalid arguments or an invalid file
)

// Error is an error with an exit code. If Err is nil, the message was already printed.
type Error struct {
	Code int
	Err  error
}

// Error returns the cause's message.
func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// UsageError returns an error with [CodeUsage].
func UsageError(err error) error { return &Error{CodeUsage, err} }

// UsageErrorf is [UsageError] with a formatted message.
func UsageErrorf(format string, args ...any) error { return UsageError(fmt.Errorf(format, args...)) }

// Failed returns an error with [CodeFailed].
func Failed(err error) error { return &Error{CodeFailed, err} }

// WithExitCode wraps the action of a command. An error without an exit code gets [CodeFailed]. A [tensor.MemoryError],
// which may also be a panic of the action, always gets [CodeFailed].
func WithExitCode(f func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) (err error) {
		defer func() {
			var memoryErr *tensor.MemoryError
			if errors.As(err, &memoryErr) {
				err = Failed(err)
			}
		}()
		defer tensor.CatchMemory(&err)
		err = f(cmd, args)
		var e *Error
		if err == nil || errors.As(err, &e) {
			return err
		}
		return Failed(err)
	}
}

// Message returns the message of an error. It rewords parts that name Go functions or system calls.
func Message(err error) string {
	text := err.Error()
	var file *fs.PathError
	if errors.As(err, &file) {
		text = strings.ReplaceAll(text, file.Error(), files.Reword("", file).Error())
	}
	var number *strconv.NumError
	if errors.As(err, &number) {
		text = strings.ReplaceAll(text, number.Error(), fmt.Sprintf("%q is not a valid number or is out of range",
			number.Num))
	}
	return text
}
