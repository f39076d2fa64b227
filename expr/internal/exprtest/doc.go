// Package exprtest has random codes and accurate values of elementary functions for the tests of expr and its packages.
package exprtest
