import entry from './typeorm.js';

export const { fromTypeOrm } = entry;
