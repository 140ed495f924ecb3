// Package spell finds the word a person probably meant: the nearest of a list
// of known ones. Pure.
package spell
